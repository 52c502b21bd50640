"""Two NHWC convolutions, padded and strided, with a depthwise one, max and mean pooling between and after them."""

import jax
import jax.numpy as jnp
from jax import lax

import fixture
from reference import weights


def mlir():
    w0, b0, w1, w2 = weights()

    def conv(x, w, stride, padding, groups=1):
        return lax.conv_general_dilated(
            x, w, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
        )

    def convolution(x):
        x = jnp.maximum(conv(x, w0, 1, "SAME") + b0, 0)
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = conv(x, w1, 1, "SAME", groups=8)
        x = jnp.maximum(conv(x, w2, 2, ((1, 1), (1, 1))), 0)
        return jnp.mean(x, axis=(1, 2))

    return fixture.export(convolution, jnp.zeros((2, 16, 16, 3), jnp.float32)).replace("@main", "@convolution")
