"""Tables: what they are, how they are read, and how a corpus of them is kept."""
