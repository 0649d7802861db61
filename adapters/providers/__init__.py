"""Model providers: their wire formats to and from our chunks, and a thin client."""
