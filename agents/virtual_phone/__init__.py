"""A phone of our own: a device daemon that the real adb server takes for a phone.

Its commands really run, on this host, in namespaces of their own; its sensors are modelled. A phone
is known as virtual by its property `ro.benchfarm.virtual=1`.
"""
