"""Helpers of saving and loading: functions that a script replaced, and files that the master writes."""
