"""A Triton backend named ``onnxruntime``, written in Python, for servers that have no C++ one.

Triton loads ``model.py`` from this folder, inside a stub process for each instance, with the Python that comes first on
the server's ``PATH``. Nothing here imports the rest of aitune: the folder works wherever it is copied to.

It follows NVIDIA's C++ backend: the same ``parameters``, the same refusals at load, the same answers. What a Python
backend cannot do:

- share one thread pool or one arena between instances: each is a process, so ``enable-global-threadpool`` does nothing;
- keep tensors on a GPU between Triton and ONNX Runtime;
- growable memory for sequence states, which are kept in the instance's own process instead of Triton's;
- return strings that are not UTF-8, which ONNX Runtime hands to Python as text: that request fails;
- answer the neighbours of a BYTES tensor whose last string is cut short: Triton fails the whole batch before it asks.

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
