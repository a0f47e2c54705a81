"""Images: from folders of pictures, through a network, to a store of features that a run takes.

`image_folder` lists the pictures, `picture` decodes each of them once to find the broken ones, `picture_store` decides
which rows the store gets (the pictures and their augmented copies) and writes them, `network` runs an ONNX model up to
its penultimate layer, and `extraction` fills the store block by block. Needs the extra ``images``: onnx, onnxruntime
and Pillow.
"""
