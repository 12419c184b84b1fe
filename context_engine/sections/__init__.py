"""One file for each section of the context; each takes only what `access` has made visible."""
