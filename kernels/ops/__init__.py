"""One module for each operator, with its name; kernels/op.py defines their parts."""
