"""One operator a module, named as the operator; kernels/op.py has what they are made of."""
