"""Load the model that training.py saved, for `evaluate`, the gate and servers."""

from pipelines.container.torch.tabular import load

__all__ = ["load"]
