"""Features: the pinned window they are built from, the ibis expressions, and the engines that run them."""
