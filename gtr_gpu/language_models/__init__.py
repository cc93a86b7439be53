"""Language models behind one interface: servers that speak the OpenAI protocol, and transformers here."""

from gtr_gpu.language_models.choose import open_model
from gtr_gpu.language_models.model import Completion, LanguageModel, ModelError

__all__ = ["Completion", "LanguageModel", "ModelError", "open_model"]
