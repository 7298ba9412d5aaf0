"""A virtual phone: a device daemon that the real adb server takes for a phone.

Its commands really run on this host, in namespaces of their own; its sensors are simulated. The
property `ro.benchfarm.virtual=1` marks it as virtual.
"""
