"""Models that compute with narrow numbers: int8 as onnxruntime.quantization makes them, f16 and bf16."""

from pathlib import Path

import numpy as np

from .model import Exported, Model, from_torch, onnx_counts, write_onnx
from .text import bert
from .vision import IMAGE, SIDE, torchvision_model

# A step of a quantised output; kernels may round a number to either side of it.
INT8_TOLERANCE = 3e-2


def of_onnx_runtime(path: Path, inputs: list[np.ndarray]) -> list[np.ndarray]:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([slot.name for slot in session.get_inputs()], inputs)))


def quantized(create, quantize):
    """Returns the export of a torch model that `quantize(source, target)` quantises; the outputs are ONNX Runtime's."""

    def export(folder: Path):
        import torch

        torch.manual_seed(0)
        model, inputs = create()
        model.eval()
        whole, narrow = folder / "float.onnx", folder / "model.onnx"
        write_onnx(model, inputs, whole)
        quantize(whole, narrow)
        whole.unlink()
        arrays = [tensor.numpy() for tensor in inputs]
        parameters = sum(parameter.numel() for parameter in model.parameters())
        exported = Exported(narrow, onnx_counts(narrow)[0], parameters, narrow)
        return exported, arrays, of_onnx_runtime(narrow, arrays)

    return export


def static(source: Path, target: Path) -> None:
    """Quantises convolutions with scales from random images: QLinearConv."""
    from onnxruntime import quantization

    class Images(quantization.CalibrationDataReader):
        def __init__(self):
            random = np.random.default_rng(0)
            self.left = [random.standard_normal((1, 3, SIDE, SIDE), dtype=np.float32) for _ in range(4)]

        def get_next(self):
            return {"input0": self.left.pop()} if self.left else None

    # Other operators of this form, such as QLinearConcat, are unknown to IREE's compiler.
    form = quantization.QuantFormat.QOperator
    quantization.quantize_static(source, target, Images(), quant_format=form, op_types_to_quantize=["Conv"])


def dynamic(source: Path, target: Path) -> None:
    """Quantises products with scales of each call: DynamicQuantizeLinear and MatMulInteger."""
    from onnxruntime import quantization

    quantization.quantize_dynamic(source, target, weight_type=quantization.QuantType.QInt8)


def computing_in(kind: str, create):
    """Returns a model that takes and returns f32, and computes in another type."""

    def narrow():
        import torch

        model, inputs = create()

        class Narrow(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = model.to(getattr(torch, kind))

            def forward(self, image):
                return self.inner(image.to(getattr(torch, kind))).float()

        return Narrow(), inputs

    return narrow


SQUEEZENET = torchvision_model("squeezenet1_1")
MODELS = [
    Model(
        "squeezenet_int8",
        "SqueezeNet 1.1, int8",
        "ONNX Runtime, QLinearConv",
        IMAGE,
        quantized(SQUEEZENET, static),
        INT8_TOLERANCE,
    ),
    Model(
        "bert_int8",
        "BERT-Mini, int8",
        "ONNX Runtime, MatMulInteger",
        "1x64 tokens, masked",
        quantized(bert, dynamic),
        INT8_TOLERANCE,
    ),
    Model(
        "squeezenet_f16",
        "SqueezeNet 1.1, f16",
        "torchvision, ONNX",
        IMAGE,
        from_torch(computing_in("float16", SQUEEZENET), "onnx"),
        5e-3,
    ),
    Model(
        "squeezenet_bf16",
        "SqueezeNet 1.1, bf16",
        "torchvision, torch.export",
        IMAGE,
        from_torch(computing_in("bfloat16", SQUEEZENET), "mlir"),
        4e-2,
    ),
]
