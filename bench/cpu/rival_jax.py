"""JAX, jitted: with its results in the memory of a donated argument , and as users call it. XLA does not write into
memory of the caller's."""
from contestant import LIBRARY, Contestant, PythonRun, Unsupported


def contestants():
    import jax
    import jax.numpy as jnp
    import ml_dtypes
    import numpy
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    jax.block_until_ready(jnp.zeros(8) + 1)  # its threads start here

    def array(held, row):
        """The caller's memory as an array of JAX's, without a copy."""
        view = held.view(ml_dtypes.bfloat16) if row.type == "bfloat16" and held.dtype == numpy.uint16 else held
        made = jax.device_put(view, may_alias=True)
        return made

    def formula(row):
        def masked(x, mask):
            return jax.nn.softmax(jnp.where(mask, x, -jnp.inf), 1)

        def mean_loss(x, targets):
            at_target = jnp.take_along_axis(x, targets[:, None], 1)[:, 0]
            return (jax.nn.logsumexp(x, 1) - at_target).mean()
        return {"softmax": lambda x: jax.nn.softmax(x, 1), "log_softmax": lambda x: jax.nn.log_softmax(x, 1),
                "logsumexp": lambda x: jax.nn.logsumexp(x, 1), "masked_softmax": masked,
                "softmax_backward": lambda y, dy: y * (dy - (y * dy).sum(1, keepdims=True)),
                "log_softmax_backward": lambda y, dy: dy - jnp.exp(y) * dy.sum(1, keepdims=True),
                "cross_entropy": lambda x, targets: jax.value_and_grad(mean_loss)(x, targets)[::-1]}[row.operation]

    def inputs(row, piece):
        given = [array(piece.x, row)]
        if piece.dy is not None:
            given.append(array(piece.dy, row))
        if piece.mask is not None:
            given.append(jax.device_put(piece.mask.view(bool), may_alias=True))
        if piece.targets is not None:
            given.append(jax.device_put(piece.targets, may_alias=True))
        return given

    def output(given):
        first = numpy.asarray(given[0] if isinstance(given, (tuple, list)) else given)
        return first.view(numpy.uint16) if first.dtype == ml_dtypes.bfloat16 else first

    def check(row):
        if row.type != row.result_type:
            raise Unsupported("results of another type")

    def fresh(row, pieces):
        check(row)
        fast = jax.jit(formula(row))
        return PythonRun([lambda given=inputs(row, piece): jax.block_until_ready(fast(*given)) for piece in pieces], output=output)

    def reused(row, pieces):
        check(row)
        function = formula(row)
        fast = jax.jit(lambda memory, *given: function(*given), donate_argnums=(0,), keep_unused=True)
        shape = pieces[0].y.shape
        dtype = array(pieces[0].x, row).dtype

        def call(piece):
            given, memory = inputs(row, piece), [jnp.zeros(shape, dtype)]

            def run():
                result = jax.block_until_ready(fast(memory[0], *given))
                memory[0] = result[0] if isinstance(result, (tuple, list)) else result
                return result
            return run
        return PythonRun([call(piece) for piece in pieces], output=output)

    version = jax.__version__
    return [Contestant(f"JAX {version} donated", "jax", LIBRARY, reused), Contestant(f"JAX {version}", "jax", LIBRARY, fresh)]
