"""Images: from folders of pictures, through a network, to a store of features for runs.

`image_folder` lists the pictures, `picture` decodes each of them once to find the broken ones, `preprocessing` prepares
them and their augmented copies for the network, `network` runs an ONNX model up to its penultimate layer,
`picture_store` has the rows of the store and writes them, `network_outputs` matches the network's own outputs with the
classes, and `extraction` fills the store block by block. Needs the extra ``images``: onnx, onnxruntime and Pillow.
"""
