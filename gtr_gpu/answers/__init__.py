"""From a model's output to an answer that names the tables and cells it rests on."""
