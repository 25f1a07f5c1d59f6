#include <pith/base/threads.h>
#include <pith/tensor/shape.h>

#include <cstdio>

int main() {
  const pith::Result<pith::Shape> shape = pith::Shape::make({2, 3});
  const pith::ThreadLimit limit(1);
  if (!shape || shape->elements() != 6) return 1;
  std::puts("installed Pith works");
}
