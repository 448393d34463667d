#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""camera.py CONFIG [IMAGES]: classifies what a camera sends by ResNet-18 with random weights; mean and contrast where
there is no torch. Images come as float16 [height, width], 0 .. 255."""
import sys

import spinwire

try:
    import numpy
except ImportError:
    sys.exit("it needs NumPy: apt install python3-numpy")

try:
    import torch
    import transformers
except ImportError:
    torch = None


def resnet():
    """A function from an image to a class; it runs where the images are."""
    shape = {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"}
    model = transformers.ResNetForImageClassification(transformers.ResNetConfig(**shape)).eval()

    @torch.inference_mode()
    def look(tensor):
        image = torch.from_dlpack(tensor)
        model.to(image.device)
        return f"class {int(model((image.float() / 255).expand(1, 3, -1, -1)).logits.argmax())}"
    return look


def statistics(tensor):
    image = numpy.asarray(tensor).astype(numpy.float32)
    return f"mean {image.mean():.2f}, contrast {image.std():.2f}"


def main(config, images=10):
    look = resnet() if torch else statistics
    with spinwire.open(config) as stream:
        for tensor in stream:
            receipt = tensor.receipt
            print(f"image {receipt.id}: {receipt.state}, {receipt.bytes_present} of {receipt.bytes_due} bytes, "
                  f"{look(tensor)}", flush=True)
            images = int(images) - 1
            if images == 0:
                break


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except spinwire.Error as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
