"""Cross-validation: held-out folds, baselines, answers, scores."""
