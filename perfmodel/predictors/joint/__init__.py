"""The predictor for all devices: its members mixed, cells of a job, records of a device."""
