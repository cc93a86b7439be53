"""The tensor operations of the pipeline, each a plain function in torch that runs on every device."""
