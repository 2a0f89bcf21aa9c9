"""The demo: the whole loop of the mesh on one machine, in processes of its own."""
