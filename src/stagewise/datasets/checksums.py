"""SHA-256 of data sets whose contents are the same in every copy, as `Dataset.array_sha256`.

The files that these were made from have the digests published for MNIST and Fashion-MNIST (the
four unpacked IDX files) and for CIFAR-10 (the six binary batches).
"""

Digests = tuple[str, str, str, str]
"""Of training images, training labels, test images and test labels."""

MNIST5K: Digests = (
    "a4de8aef91b3e0f55bd9bdd12b0a57b0cf59840b8a6862322247ec6651db0b2e",
    "f2c7748a0e6d020ebb52ec178f11df176c34be3036bd7070bd0074465c44de8d",
    "fb8e189a3c37b5f9dc83ce41dd4c5f7a66f945fa0ee69010abf460b9a3e5d2e4",
    "bbdaed34ddb84891085b7279daa6e45d3336e5e8925f5fc218042c671c4f0e10",
)
DIGITS: Digests = (
    "503377f9cfaca149d5f4766a565f241ffa34779a6052ed8f96ddd783e9ed34eb",
    "9313721fa010b4068efd8523f8b0ad55e16fe55564ccc54da13abb96858f7b54",
    "747b8e40cc4d21a26c27e6681d6b5641b1d1c96162f713457890ca5ee65f561d",
    "ee6ec0ae7823271abdaa9092fefe38ec720e2d13d041a0541dbd4099bda0fc56",
)
MNIST: Digests = (
    "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
    "e474323ac02fc156161b0bbb1f8c9cfeb327a74bcd9f9680a8385269a24f566c",
    "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
    "2fd8de6bdb8d11780b4b96dc57847bcfe6953f7c32aa48bfcd8237c3b7847243",
)
FASHION_MNIST: Digests = (
    "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
    "e3245b63f7c40d1c8b652835f19744d970c1613b40ddac6bcfc87b9c46e16a0b",
    "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
    "d51d859896c55775b9e9e219b77ff03bcec1b6ac322f313544dc3f9e7bc94fae",
)
CIFAR10: Digests = (
    "9d5c2eddadb0deff02c14c350c0385aab7b1d5ff1edfeb4997c8dc8644960111",
    "f5cfe00b0f00968c0cc5ff3b1d2de51b10e33efa277c2986f4e0fa63e58c9f4f",
    "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56",
    "cbb7365de8ed11f05cc4c3a1e7f78144127c5e851efd83762fb18202461230bb",
)
CIFAR100_PYTHON_MD5 = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
}
"""Of the batches in the python archive, as published."""
