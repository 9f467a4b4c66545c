"""Data sets of one's own: folders of images, archives of arrays and tables with images become prepared arrays."""
