"""The program that runs on the device: LoadGen drives a `.tflite` model through its interpreter.

It is copied into the bundle as it is, so it imports only the standard library, numpy,
mlperf_loadgen, the bundle's interpreter (ai_edge_litert or tflite_runtime) and itself.
"""
