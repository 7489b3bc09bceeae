"""One process that serves nothing itself: it owns the listening socket, the operator's listener and the workers.

It stays light: neither the models' runtime nor anything of the funnel is imported here.
"""
