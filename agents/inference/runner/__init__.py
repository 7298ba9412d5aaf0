"""The runner: the program on the device in which LoadGen drives a `.tflite` model.

It is copied into the bundle unchanged, so it imports only the standard library, numpy, Pillow,
mlperf_loadgen, the bundle's interpreter (ai_edge_litert or tflite_runtime), itself, and what
bundle/build.py adds of agents/host and models/mobile.
"""
