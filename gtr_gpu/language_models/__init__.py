"""Language models behind one interface: servers that speak the OpenAI protocol, and transformers here."""
