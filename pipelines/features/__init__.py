"""Features of a window: pinned input files, ibis expressions and the engines that run them."""
