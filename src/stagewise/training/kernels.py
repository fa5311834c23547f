"""Loops of the fast path that tensor operations would do in many passes over memory.

Arrays have the client first and the sample of the batch last: the innermost loops run over
neighbouring numbers. A *column* is one position of the pooled image in one sample of the batch,
(row * width + column of the image) * batch + sample; columns may be followed by unused numbers.
What goes into a matrix product, or comes out of it, may be bits of bfloat16.
"""

import math

from stagewise.compiled import compiled
from stagewise.training.bfloat16 import decoded, encoded

NO_WINNER = 4


@compiled
def gather_images(images, samples, scale, shift, padding, out):
    """Scaled images with the batch last, inside a frame of `padding` zeros.

    `images` (all, channels, height, width) of bytes, `samples` (clients, batch), `out` (clients,
    channels, height + 2 padding, width + 2 padding, batch), whose frame is left as it is.
    """
    clients, batch = samples.shape
    channels, height, width = images.shape[1:]
    for client in range(clients):
        for channel in range(channels):
            slope, offset = scale[channel], shift[channel]
            for y in range(height):
                for x in range(width):
                    for b in range(batch):
                        value = images[samples[client, b], channel, y, x] * slope + offset
                        out[client, channel, y + padding, x + padding, b] = encoded(value, out)


@compiled
def place_kernels(weights, biases, side, channels, matrix):
    """Lay every kernel into a patch one wider at its four places, the bias after it.

    `weights` (clients, filters, side * side * channels), `biases` (clients, filters), `matrix`
    (clients, 4 filters, (side + 1) ** 2 * channels + 1), which is zero between the kernels.
    """
    clients, filters = biases.shape
    run, wide = side * channels, (side + 1) * channels
    for client in range(clients):
        for place in range(4):
            first = place // 2 * wide + place % 2 * channels
            for f in range(filters):
                row = place * filters + f
                for i in range(side):
                    for n in range(run):
                        value = weights[client, f, i * run + n]
                        matrix[client, row, first + i * wide + n] = encoded(value, matrix)
                matrix[client, row, wide * (side + 1)] = encoded(biases[client, f], matrix)


@compiled
def collect_kernel_gradients(matrix, side, channels, weights, biases):
    """Sum the gradients of the four places: the transpose of `place_kernels`.

    `matrix` has its last two dimensions exchanged.
    """
    clients, filters = biases.shape
    run, wide = side * channels, (side + 1) * channels
    for client in range(clients):
        for f in range(filters):
            bias = decoded(matrix[client, wide * (side + 1), f])
            for place in range(1, 4):
                bias += decoded(matrix[client, wide * (side + 1), place * filters + f])
            biases[client, f] = bias
        for i in range(side):
            for n in range(run):
                row = i * wide + n
                for f in range(filters):
                    weights[client, f, i * run + n] = (
                        decoded(matrix[client, row, f])
                        + decoded(matrix[client, row + channels, filters + f])
                        + decoded(matrix[client, row + wide, 2 * filters + f])
                        + decoded(matrix[client, row + wide + channels, 3 * filters + f])
                    )


@compiled
def unfold(images, size, height, width, patches):
    """Copy the overlapping patches of `size` x `size` and stride 2 into columns.

    `images` (clients, channels, rows, columns, batch), `patches` (clients, size * size * channels
    + 1, columns), the last row of which becomes one. There are `height` x `width` patches.
    """
    clients, channels, _, _, batch = images.shape
    for client in range(clients):
        row = 0
        for i in range(size):
            for j in range(size):
                for channel in range(channels):
                    for y in range(height):
                        for x in range(width):
                            column = (y * width + x) * batch
                            for b in range(batch):
                                patches[client, row, column + b] = images[
                                    client, channel, 2 * y + i, 2 * x + j, b
                                ]
                    row += 1
        for column in range(height * width * batch):
            patches[client, row, column] = encoded(1.0, patches)


@compiled
def fold(patches, size, height, width, images):
    """Sum the numbers in columns back into images: the transpose of `unfold`."""
    images[:] = 0
    clients, channels, _, _, batch = images.shape
    for client in range(clients):
        row = 0
        for i in range(size):
            for j in range(size):
                for channel in range(channels):
                    for y in range(height):
                        for x in range(width):
                            column = (y * width + x) * batch
                            for b in range(batch):
                                images[client, channel, 2 * y + i, 2 * x + j, b] += decoded(
                                    patches[client, row, column + b]
                                )
                    row += 1


@compiled
def pool(slabs, padding, out, winner):
    """The largest of four slabs and zero, and which it was: the first of equals, 4 for zero.

    `slabs` (clients, 4 filters, columns), `winner` (clients, filters, height, width, batch), `out`
    likewise inside a frame of `padding` zeros, which is left as it is.
    """
    clients, filters, height, width, batch = winner.shape
    for client in range(clients):
        for f in range(filters):
            for y in range(height):
                for x in range(width):
                    column = (y * width + x) * batch
                    for b in range(batch):
                        best = decoded(slabs[client, f, column + b])
                        which = 0
                        for slab in range(1, 4):
                            value = decoded(slabs[client, slab * filters + f, column + b])
                            if value > best:
                                best = value
                                which = slab
                        if best <= 0:
                            best = 0
                            which = NO_WINNER
                        out[client, f, y + padding, x + padding, b] = encoded(best, out)
                        winner[client, f, y, x, b] = which


@compiled
def unpool(gradient, padding, winner, slabs):
    """Hand the gradient of `pool` to the slab that won; the others get zero."""
    clients, filters, height, width, batch = winner.shape
    for client in range(clients):
        for slab in range(4):
            for f in range(filters):
                row = slab * filters + f
                for y in range(height):
                    for x in range(width):
                        column = (y * width + x) * batch
                        for b in range(batch):
                            value = gradient[client, f, y + padding, x + padding, b]
                            if winner[client, f, y, x, b] != slab:
                                value = 0
                            slabs[client, row, column + b] = encoded(value, slabs)


@compiled
def cross_entropy_gradient(outputs, labels, sizes, loss, gradient):
    """The mean cross entropy of every client and its gradient.

    `outputs` and `gradient` (clients, classes, batch), `labels` (clients, batch), `loss` (clients,);
    only the first `sizes` samples of a client's batch count.
    """
    clients, classes, batch = outputs.shape
    for client in range(clients):
        total = 0.0
        for b in range(batch):
            largest = outputs[client, 0, b]
            for h in range(1, classes):
                largest = max(largest, outputs[client, h, b])
            scale = outputs[client, 0, b] * 0
            for h in range(classes):
                power = math.exp(outputs[client, h, b] - largest)
                gradient[client, h, b] = power
                scale += power
            counted = b < sizes[client]
            label = labels[client, b]
            if counted:
                total += math.log(scale) + largest - outputs[client, label, b]
            for h in range(classes):
                part = gradient[client, h, b] / scale
                if h == label:
                    part -= 1
                gradient[client, h, b] = part / sizes[client] if counted else 0
        loss[client] = total / sizes[client]
