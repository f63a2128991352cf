"""What phones and apps do: mechanisms in use, with the parameters of their sources, one file each."""
