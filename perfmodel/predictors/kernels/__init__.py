"""The predictor of single kernel calls."""
