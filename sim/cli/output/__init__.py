"""Terminal output of the commands: results on stdout, one module per kind of output."""
