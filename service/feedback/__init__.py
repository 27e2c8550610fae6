"""Answers held against what was then observed: compared, watched for drift, told."""
