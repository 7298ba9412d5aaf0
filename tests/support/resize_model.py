"""A model of one operator, which resizes an image, as a `.tflite` file."""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from numpy.typing import NDArray


def _tensor(shape: tuple[int, ...], kind: int, buffer: int) -> schema.TensorT:
    tensor = schema.TensorT()
    tensor.shape, tensor.type, tensor.buffer = list(shape), kind, buffer
    scale = schema.QuantizationParametersT()
    scale.scale, scale.zeroPoint = [0.25], [3]
    tensor.quantization = None if kind == schema.TensorType.FLOAT32 else scale
    return tensor


def resize_model(
    source: tuple[int, int],
    target: tuple[int, int],
    *,
    align_corners: bool = False,
    half_pixel: bool = False,
    bilinear: bool = True,
    kind: str = "float32",
) -> bytes:
    """Return a model from (1, h, w, 3) to (1, height, width, 3), bilinear or nearest."""
    name = "ResizeBilinear" if bilinear else "ResizeNearestNeighbor"
    options = getattr(schema, f"{name}OptionsT")()
    options.alignCorners, options.halfPixelCenters = align_corners, half_pixel
    builtin = schema.BuiltinOperator
    code = schema.OperatorCodeT()
    code.builtinCode = builtin.RESIZE_BILINEAR if bilinear else builtin.RESIZE_NEAREST_NEIGHBOR
    code.deprecatedBuiltinCode, code.version = code.builtinCode, 3
    operator = schema.OperatorT()
    operator.inputs, operator.outputs = [0, 1], [2]
    operator.builtinOptionsType = getattr(schema.BuiltinOptions, f"{name}Options")
    operator.builtinOptions = options
    graph = schema.SubGraphT()
    pixel, size = getattr(schema.TensorType, kind.upper()), schema.BufferT()
    graph.tensors = [
        _tensor((1, *source, 3), pixel, 0),
        _tensor((2,), schema.TensorType.INT32, 1),
        _tensor((1, *target, 3), pixel, 0),
    ]
    graph.inputs, graph.outputs, graph.operators = [0], [2], [operator]
    size.data = np.array(target, "<i4").view(np.uint8)
    model = schema.ModelT()
    model.version, model.operatorCodes = 3, [code]
    model.subgraphs, model.buffers = [graph], [schema.BufferT(), size]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def resized(model: bytes, image: NDArray[Any]) -> NDArray[Any]:
    """Return what TensorFlow Lite's reference kernel makes of an image (h, w, 3)."""
    interpreter = Interpreter(
        model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image[np.newaxis])
    interpreter.invoke()
    output = interpreter.get_output_details()[0]["index"]
    return np.asarray(interpreter.get_tensor(output)[0])
