"""What schedulers have measured, in their own terms, as observations and as entries of tables.

A measured entry goes into an exported table as it was measured, to the last digit; what was not
measured is answered in the light of it.
"""
