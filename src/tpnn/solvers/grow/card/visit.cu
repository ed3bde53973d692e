// Rows on an NVIDIA card: what growth asks of them, and the steps that it takes.
//
// A row falls into one cell of a component's grid. A visit first applies the last step, then sums
// what is asked over the cells of the next component. Sums are whole numbers, so the order in which
// threads add does not matter: they have the same bits as on any other device. Rows are independent
// and no multiplication is fused with an addition, so slopes and raw scores have the same bits too.
//
// Every column is padded to a multiple of four rows; added rows have slopes of zero, and count
// nothing. Every kernel takes one structure of words of 64 bits.

typedef unsigned int Word;
typedef unsigned long long Count;

// A component as rows see it: the columns of its features (null: all rows have node 0), the bytes
// of a code, and the number of entries from one node to the next along each feature; the entry of a
// row's cell is `first_entry` plus the sum of node times stride.
struct Component {
  const unsigned char *columns[3];
  long long bytes, strides[3], first_entry, n_entries;
};

// Values of four neighbouring rows, which are loaded and stored at once.
template <class Value> struct alignas(4 * sizeof(Value)) Four { Value of[4]; };

template <class Value> __device__ Four<Value> four(const Value *values, long long row) {
  return *(const Four<Value> *)(values + row);
}

template <class Value> __device__ void store(Value *values, long long row, Four<Value> four) {
  *(Four<Value> *)(values + row) = four;
}

template <class Code>
__device__ void add_nodes(const Code *column, long long row, long long stride, Four<Word> &entries) {
  const Four<Code> nodes = four(column, row);
  for (int k = 0; k < 4; k++) entries.of[k] += nodes.of[k] * (Word)stride;
}

// Entries of the cells of four neighbouring rows.
__device__ Four<Word> entries_of(const Component &component, long long row) {
  Four<Word> entries;
  for (int k = 0; k < 4; k++) entries.of[k] = (Word)component.first_entry;
  for (int axis = 0; axis < 3; axis++) {
    const unsigned char *column = component.columns[axis];
    const long long stride = component.strides[axis];
    if (column == 0) continue;
    if (component.bytes == 1) add_nodes(column, row, stride, entries);
    else add_nodes((const unsigned short *)column, row, stride, entries);
  }
  return entries;
}

// Sums of one block in fast memory: `n_copies` of them, so that threads rarely meet at a small
// grid. A sum is two words, as fast memory adds words of 32 bits only.
struct BlockSums {
  Word *low, *high;
  long long n_entries;
  int n_copies;
};

__device__ void add(const BlockSums &sums, long long entry, long long value) {
  const long long at = entry * sums.n_copies + threadIdx.x % sums.n_copies;
  const Word part = (Word)value;
  const Word before = atomicAdd(sums.low + at, part);
  const Word carry = before + part < part;
  const Word top = (Word)((Count)value >> 32) + carry;
  if (top) atomicAdd(sums.high + at, top);
}

__device__ void clear(const BlockSums &sums) {
  for (long long at = threadIdx.x; at < sums.n_entries * sums.n_copies; at += blockDim.x)
    sums.low[at] = sums.high[at] = 0;
}

__device__ void flush(const BlockSums &sums, Count *total) {
  if (sums.n_copies == 0) return;
  for (long long entry = threadIdx.x; entry < sums.n_entries; entry += blockDim.x) {
    Count sum = 0;
    for (int copy = 0; copy < sums.n_copies; copy++) {
      const long long at = entry * sums.n_copies + copy;
      sum += ((Count)sums.high[at] << 32) + sums.low[at];
    }
    if (sum) atomicAdd(total + entry, sum);
  }
}

// Whether this is the last block of a kernel; all sums of the others are visible to it then.
__device__ bool is_last(Word *n_done) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(n_done, 1) == gridDim.x - 1;
    if (last) *n_done = 0;
  }
  __syncthreads();
  return last;
}

// Move sums to the memory of the host, and leave zeros behind.
__device__ void hand_over(Count *sums, volatile Count *answer, long long n_sums) {
  for (long long entry = threadIdx.x; entry < n_sums; entry += blockDim.x)
    answer[entry] = atomicExch(sums + entry, (Count)0);
}

__device__ BlockSums block_sums(Word *memory, long long n_entries, long long n_copies) {
  return BlockSums{memory, memory + n_entries * n_copies, n_entries, (int)n_copies};
}

// Add to the sums of the block or, where they do not fit into fast memory, to those of all blocks.
__device__ void add_to(const BlockSums &sums, Count *total, long long entry, long long value) {
  if (sums.n_copies) add(sums, entry, value);
  else atomicAdd(total + entry, (Count)value);
}

// Main effects and pairs: residual -= hessian * step, then sums of residuals and hessians.
struct Visit {
  long long n_rows, n_copies, with_masses, stride_of_answer;  // no copies: sums are too many
  double scales[2];
  Component last, next;
  const float *step;
  float *residual;
  const float *hessian;
  Count *sums;
  Count *answer;
  Word *n_done;
};

extern "C" __global__ void visit(Visit v) {
  extern __shared__ Word memory[];
  const long long n_entries = v.next.n_entries;
  const BlockSums kinds[2] = {block_sums(memory, n_entries, v.n_copies),
                              block_sums(memory + 2 * n_entries * v.n_copies, n_entries, v.n_copies)};
  Count *masses = v.sums + v.stride_of_answer;
  clear(kinds[0]);
  if (v.with_masses) clear(kinds[1]);
  __syncthreads();
  const float scale = (float)v.scales[0], mass_scale = (float)v.scales[1];
  const long long n_threads = (long long)gridDim.x * blockDim.x;
  for (long long row = 4 * ((long long)blockIdx.x * blockDim.x + threadIdx.x); row < v.n_rows;
       row += 4 * n_threads) {
    Four<float> residual = four(v.residual, row);
    const Four<float> hessian = four(v.hessian, row);
    if (v.last.n_entries) {
      const Four<Word> entries = entries_of(v.last, row);
      for (int k = 0; k < 4; k++) residual.of[k] -= hessian.of[k] * v.step[entries.of[k]];
      store(v.residual, row, residual);
    }
    if (v.next.n_entries == 0) continue;
    const Four<Word> entries = entries_of(v.next, row);
    for (int k = 0; k < 4; k++) {
      add_to(kinds[0], v.sums, entries.of[k], llrintf(residual.of[k] * scale));
      if (v.with_masses)
        add_to(kinds[1], masses, entries.of[k], llrintf(hessian.of[k] * mass_scale));
    }
  }
  __syncthreads();
  flush(kinds[0], v.sums);
  if (v.with_masses) flush(kinds[1], masses);
  if (!is_last(v.n_done)) return;
  hand_over(v.sums, v.answer, n_entries);
  if (v.with_masses) hand_over(masses, v.answer + v.stride_of_answer, n_entries);
}

// Raw scores of some rows: known + intercept + main effects + pairs, added in this order.
struct Scores {
  long long n_rows;
  const int *rows;  // their numbers among all rows
  const float *known;
  long long known_stride;
  double intercept;
  const Component *components;
  const float *const *grids;
  long long n_components;
  float *raw;
};

extern "C" __global__ void scores(Scores s) {
  const long long n_threads = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < s.n_rows;
       i += n_threads) {
    const long long row = s.rows[i];
    float raw = s.known[i * s.known_stride] + (float)s.intercept;
    for (long long number = 0; number < s.n_components; number++) {
      const Component &component = s.components[number];
      long long entry = component.first_entry;
      for (int axis = 0; axis < 3; axis++) {
        const unsigned char *column = component.columns[axis];
        if (column == 0) continue;
        const long long node = component.bytes == 1 ? column[row] : ((const unsigned short *)column)[row];
        entry += node * component.strides[axis];
      }
      raw += s.grids[number][entry];
    }
    s.raw[i] = raw;
  }
}
