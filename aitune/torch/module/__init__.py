"""What samples of a PyTorch module look like, learned call by call.

`sample_metadata` holds what a caller needs, `tensor_spec` what is known about one tensor, `locator` where it sits.

>>> import torch
>>> from aitune.torch.module.sample_metadata import SampleMetadata
>>> learned = SampleMetadata.from_inputs({"ids": torch.zeros(1, 8)}, batch_size=1)
>>> learned.update_shapes_seen(SampleMetadata.from_inputs({"ids": torch.zeros(2, 12)}, batch_size=2))
>>> learned.tensor_specs[0].describe()
'shape=[batch0, dim1] min_shape=[1, 8] max_shape=[2, 12] dtype=torch.float32'
>>> {name: value.shape for name, value in learned.make_batch({"ids": torch.zeros(1, 8)}, 4).items()}
{'ids': torch.Size([4, 8])}
"""
