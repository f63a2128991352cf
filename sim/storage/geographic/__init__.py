"""Files of positions for geographic information systems: features, GeoJSON, KML and GeoParquet."""
