"""One module per scheme: what the scheme is. Nothing here draws, trains or grades."""
