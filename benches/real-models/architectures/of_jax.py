"""JAX: a scan, a step of a diffusion model, a perceptron, an LSTM, and the prefill of a transformer."""

from .model import Model, from_jax

STEPS, WIDTH = 64, 128
SIDE, CHANNELS = 16, 32


def normal(key, *shape):
    import jax
    import numpy as np

    fan_in = int(np.prod(shape[:-1])) or 1
    return jax.random.normal(key, shape) * fan_in**-0.5


def scan():
    """A gated linear recurrence over a sequence, as state-space models have it, by `lax.scan`."""
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.key(0), 5)
    weights = {name: normal(key, WIDTH, WIDTH) for name, key in zip(("gate", "value", "out"), keys)}

    def function(weights, xs, state):
        def step(state, x):
            gate = jax.nn.sigmoid(x @ weights["gate"])
            state = gate * state + (1 - gate) * jnp.tanh(x @ weights["value"])
            return state, state @ weights["out"]

        return jax.lax.scan(step, state, xs)

    return function, weights, [normal(keys[3], STEPS, WIDTH), normal(keys[4], WIDTH)]


def diffusion():
    """A step of a denoising diffusion model: a small U-Net predicts the noise, which is taken out of the image."""
    import jax
    import jax.numpy as jnp

    names = {
        "embed": (32, CHANNELS),
        "first": (3, 3, 3, CHANNELS),
        "down": (3, 3, CHANNELS, 2 * CHANNELS),
        "middle": (3, 3, 2 * CHANNELS, 2 * CHANNELS),
        "qkv": (2 * CHANNELS, 6 * CHANNELS),
        "up": (3, 3, 2 * CHANNELS, CHANNELS),
        "last": (3, 3, 2 * CHANNELS, 3),
    }
    keys = jax.random.split(jax.random.key(0), len(names) + 2)
    weights = {name: normal(key, *shape) for key, (name, shape) in zip(keys, names.items())}

    def convolve(x, w, stride=1):
        return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def group_norm(x):
        grouped = x.reshape(*x.shape[:3], 8, -1)
        mean, variance = grouped.mean((1, 2, 4), keepdims=True), grouped.var((1, 2, 4), keepdims=True)
        return ((grouped - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape)

    def attention(x, w):
        q, k, v = jnp.split(x.reshape(1, -1, 2 * CHANNELS) @ w, 3, axis=-1)
        scores = jax.nn.softmax(q @ k.transpose(0, 2, 1) * (2 * CHANNELS) ** -0.5)
        return x + (scores @ v).reshape(x.shape)

    def function(weights, image, time, noise):
        frequencies = jnp.exp(jnp.linspace(0.0, -6.0, 16))
        angles = time * frequencies
        embedded = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)]) @ weights["embed"]
        high = jax.nn.silu(group_norm(convolve(image, weights["first"]) + embedded))
        low = jax.nn.silu(group_norm(convolve(high, weights["down"], 2)))
        low = attention(jax.nn.silu(group_norm(convolve(low, weights["middle"]))), weights["qkv"])
        wide = jax.image.resize(low, (1, SIDE, SIDE, 2 * CHANNELS), "nearest")
        up = jax.nn.silu(group_norm(convolve(wide, weights["up"])))
        predicted = convolve(jnp.concatenate([high, up], -1), weights["last"])
        beta = 1e-4 + 0.02 * time / 1000
        mean = (image - beta / jnp.sqrt(1 - jnp.exp(-time * 0.01)) * predicted) / jnp.sqrt(1 - beta)
        return mean + jnp.sqrt(beta) * noise

    image = jax.random.normal(keys[-1], (1, SIDE, SIDE, 3))
    noise = jax.random.normal(keys[-2], (1, SIDE, SIDE, 3))
    return function, weights, [image, jnp.float32(500.0), noise]


def perceptron():
    """Three dense layers of a batch of rows."""
    import jax

    sizes = (784, 512, 256, 10)
    keys = jax.random.split(jax.random.key(0), len(sizes))
    weights = [normal(key, *shape) for key, shape in zip(keys, zip(sizes, sizes[1:]))]

    def function(weights, x):
        for layer in weights[:-1]:
            x = jax.nn.relu(x @ layer)
        return jax.nn.softmax(x @ weights[-1])

    return function, weights, [jax.random.normal(keys[-1], (32, sizes[0]))]


def lstm():
    """An LSTM over a sequence."""
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.key(0), 3)
    weights = {name: normal(key, WIDTH, 4 * WIDTH) for name, key in zip(("input", "state"), keys)}

    def function(weights, xs):
        def step(carry, x):
            hidden, cell = carry
            gates = x @ weights["input"] + hidden @ weights["state"]
            write, keep, read, value = jnp.split(gates, 4)
            cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(write) * jnp.tanh(value)
            hidden = jax.nn.sigmoid(read) * jnp.tanh(cell)
            return (hidden, cell), hidden

        return jax.lax.scan(step, (jnp.zeros(WIDTH), jnp.zeros(WIDTH)), xs)[1]

    return function, weights, [jax.random.normal(keys[-1], (STEPS, WIDTH))]


def prefill():
    """The layers of a small decoder over a whole prompt."""
    import jax
    import jax.numpy as jnp

    layers, heads, width, length = 4, 4, 256, 64
    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    keys = jax.random.split(jax.random.key(0), layers * len(shapes) + 1)
    named = [(layer, name) for layer in range(layers) for name in shapes]
    weights = [{} for _ in range(layers)]
    for key, (layer, name) in zip(keys, named):
        weights[layer][name] = normal(key, *shapes[name])

    def layer_norm(x):
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def function(weights, x):
        mask = jnp.tril(jnp.ones((length, length), bool))
        for layer in weights:
            q, k, v = jnp.split((layer_norm(x) @ layer["qkv"]).reshape(length, heads, -1).swapaxes(0, 1), 3, axis=-1)
            scores = jnp.where(mask, q @ k.swapaxes(1, 2) * (width // heads) ** -0.5, -jnp.inf)
            attended = (jax.nn.softmax(scores) @ v).swapaxes(0, 1).reshape(length, width)
            x = x + attended @ layer["out"]
            x = x + jax.nn.gelu(layer_norm(x) @ layer["up"]) @ layer["down"]
        return x

    return function, weights, [jax.random.normal(keys[-1], (length, width))]


# By the names of the models: what XLA is timed with.
FUNCTIONS = {
    "scan": scan,
    "diffusion": diffusion,
    "jax_mlp": perceptron,
    "jax_lstm": lstm,
    "jax_prefill": prefill,
}

MODELS = [
    Model("scan", "gated recurrence by `lax.scan`", "JAX, StableHLO", f"{STEPS} steps of {WIDTH}", from_jax(scan)),
    Model("diffusion", "diffusion step, a U-Net", "JAX, StableHLO", f"1x{SIDE}x{SIDE}x3", from_jax(diffusion)),
    Model("jax_mlp", "perceptron, 784 to 10", "JAX, StableHLO", "32x784", from_jax(perceptron)),
    Model("jax_lstm", "LSTM by `lax.scan`", "JAX, StableHLO", f"{STEPS} steps of {WIDTH}", from_jax(lstm)),
    Model("jax_prefill", "decoder, 4 layers, prefill", "JAX, StableHLO", "64 tokens of 256", from_jax(prefill)),
]
