"""A Triton backend named ``onnxruntime``, written in Python, for servers that have no C++ one.

Triton loads ``model.py`` from this folder, inside a stub process for each instance, with the Python that comes first on
the server's ``PATH``. Nothing here imports the rest of aitune: the folder works wherever it is copied to.

It follows NVIDIA's C++ backend: the same ``parameters``, the same refusals at load, the same answers. What a Python
backend cannot do: share one thread pool or one arena between instances (each is a process, so the server-wide
``enable-global-threadpool`` has no effect), keep tensors on a GPU between Triton and ONNX Runtime, and growable memory
for sequence states (they are kept in the instance's own process instead).

.. code-block:: text

    model.py         what Triton imports
    serving.py       TritonPythonModel: load once, answer batches
    settings.py      the config's parameters → session options
    accelerators.py  which execution providers, and which requests for one are refused
    sessions.py      the file to load, and the session made of it
    signature.py     a model's tensors as ONNX Runtime sees them
    checks.py        config against signature, before the first request
    completion.py    what a config leaves out, told from the signature
    failures.py      the exception that means "cannot be served"
    plan.py          which requests of a batch run together, and how
    tensors.py       arrays in and rows out
    ragged.py        batch inputs and scattered outputs
    states.py        sequence states between requests
"""
