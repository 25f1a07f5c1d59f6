// The tree of exceptions: pith.Error and one kind for each StatusCode, each also what
// Python calls it, so that `except ValueError` and `except OSError` do what one expects.
#include <initializer_list>

#include "arrays.h"

namespace pith::python {

namespace {

PyObject* g_errors[static_cast<std::size_t>(StatusCode::kCancelled) + 1] = {};

PyObject* make(nb::module_& m, const char* name, const char* doc,
               std::initializer_list<PyObject*> bases) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(bases.size())));
  Py_ssize_t i = 0;
  for (PyObject* base : bases) PyTuple_SetItem(tuple.ptr(), i++, Py_NewRef(base));
  PyObject* const type = PyErr_NewExceptionWithDoc((std::string("pith.") + name).c_str(),
                                                   doc, tuple.ptr(), nullptr);
  if (type == nullptr) throw nb::python_error();
  m.attr(name) = nb::handle(type);
  return type;
}

}  // namespace

void add_errors(nb::module_& m) {
  PyObject* const base =
      make(m, "Error",
           "Anything that went wrong in Pith; the message says where and what to do.",
           {PyExc_Exception});
  const auto add = [&](StatusCode code, const char* name, const char* doc,
                       std::initializer_list<PyObject*> bases) {
    g_errors[static_cast<std::size_t>(code)] = make(m, name, doc, bases);
  };
  add(StatusCode::kInvalidArgument, "InvalidArgument", "An argument is out of its range.",
      {base, PyExc_ValueError});
  add(StatusCode::kNotFound, "NotFound", "No such file, tensor or layer.",
      {base, PyExc_FileNotFoundError});
  add(StatusCode::kAlreadyExists, "AlreadyExists",
      "The output is there and may not be replaced.", {base, PyExc_FileExistsError});
  add(StatusCode::kCorrupt, "Corrupt", "A file or message breaks its format.",
      {base, PyExc_ValueError});
  add(StatusCode::kUnsupported, "Unsupported",
      "Well formed, but nothing Pith reads or does.", {base, PyExc_NotImplementedError});
  add(StatusCode::kNotFinite, "NotFinite", "NaN or infinity where a number is needed.",
      {base, PyExc_ValueError});
  add(StatusCode::kGateFailed, "GateFailed", "A limit set by the user was exceeded.",
      {base});
  add(StatusCode::kIo, "IoError", "A system call failed.", {base, PyExc_OSError});
  add(StatusCode::kNoSpace, "NoSpace", "Disk, quota or memory limit reached.",
      {base, PyExc_OSError});
  add(StatusCode::kCancelled, "Cancelled", "Stopped on request.", {base});
  g_errors[0] = base;
}

void raise(const Status& status) {
  PyErr_SetString(g_errors[static_cast<std::size_t>(status.code())],
                  status.message().c_str());
  throw nb::python_error();
}

}  // namespace pith::python
