"""Every rival by the name that the command line takes, and how it is loaded: what is missing is named, not fatal."""
import ctypes
import importlib

# In this order they are loaded: JAX first, for it counts the processors when it starts.
NAMES = ["jax", "onnxruntime", "onednn", "sleef", "gcc", "numpy", "scipy", "torch", "torch.compile", "openvino"]
DEFAULT = tuple(name for name in NAMES if name != "torch.compile")  # which compiles for seconds, for every shape


def c_rival(parts, name):
    title = {"gcc": "gcc loop", "sleef": "SLEEF by hand", "onednn": "oneDNN"}[name]
    library, contestant = parts.rival(title, name, {"gcc": "gcc_loop"}.get(name, name))
    version = "-Ofast -march=native"
    if name == "onednn":
        library.bench_onednn_version.restype = ctypes.c_char_p
        version = library.bench_onednn_version().decode()
        contestant.name = f"oneDNN {version}"
    elif name == "sleef":
        version = "1.0 ULP exp"
    return version, [contestant]


def python_rival(name):
    module = importlib.import_module({"scipy": "rival_numpy"}.get(name, f"rival_{name}"))
    made = {"numpy": "numpy_contestants", "scipy": "scipy_contestants"}.get(name, "contestants")
    made = getattr(module, made)()
    return made[0].name.replace(" out=", ""), made


def load(wanted, parts):
    """Yields (name, version, contestants or the exception that says why there are none)."""
    torch_wanted = {"torch", "torch.compile", "onednn"} & set(wanted)
    for name in NAMES:
        if name not in wanted and not (name == "torch" and torch_wanted):
            continue
        if name == "torch.compile":
            continue  # comes with torch
        try:
            if name in ("gcc", "sleef", "onednn"):
                version, made = c_rival(parts, name)
            else:
                version, made = python_rival(name)
                if name == "torch":
                    made = [contestant for contestant in made if contestant.rival in wanted]
        except (ImportError, OSError, AttributeError) as error:
            yield name, None, error
            continue
        yield name, version, made
