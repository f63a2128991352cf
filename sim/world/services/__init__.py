"""Services that users ask about their location, one file each."""
