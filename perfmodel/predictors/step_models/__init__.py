"""Models of whole steps over devices: node networks and trees, members of the joint predictor."""
