"""The runner: the program on the device in which LoadGen drives a `.tflite` model.

It is copied into the bundle unchanged, so it imports only the standard library, numpy,
mlperf_loadgen, the bundle's interpreter (ai_edge_litert or tflite_runtime) and itself.
"""
