"""LoadGen's logs: reading them, working their figures out again, and checking them.

`logs` needs nothing but Python, since it is also part of the bundles for devices.
"""
