"""Reports as one HTML file each, which opens anywhere and asks for nothing from elsewhere."""
