"""How the adapter of the embedded model is made: data, training, export, measurement. See README.md."""
