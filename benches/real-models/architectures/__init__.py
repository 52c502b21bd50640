"""Architectures with random weights of a fixed seed. No weights are downloaded."""

from .classical import MODELS as CLASSICAL
from .narrow import MODELS as NARROW
from .of_jax import MODELS as OF_JAX
from .recurrent import MODELS as RECURRENT
from .text import MODELS as TEXT
from .vision import MODELS as VISION

MODELS = {model.name: model for model in [*VISION, *NARROW, *TEXT, *RECURRENT, *OF_JAX, *CLASSICAL]}
