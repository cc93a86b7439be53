"""Retrieval methods behind one interface: baselines, GTR, and the authors' protocol with the label."""
