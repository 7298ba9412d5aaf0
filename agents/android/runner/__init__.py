"""The program that runs on the device: LoadGen drives a `.tflite` model through LiteRT.

It is copied into the bundle as it is, so it imports only the standard library, numpy,
ai_edge_litert, mlperf_loadgen and itself.
"""
