#include "lab/server/routes.h"

#include "lab/server/assets.h"
#include "lab/server/lab_api.h"
#include "lab/server/map_api.h"
#include "lab/server/page.h"

namespace multihead::lab {

Router make_router(const std::shared_ptr<Captures>& captures) {
  Router router;
  const auto page = [](const Request& request) {
    return Response{200, "text/html; charset=utf-8", render_page(language_of(request)), {{"Vary", "Accept-Language"}}};
  };
  router.add("GET", "/", page);
  for (const Asset& file : assets()) {
    if (file.path.ends_with(".html")) continue;  // a template
    router.add("GET", "/" + std::string(file.path), [&file](const Request&) {
      return Response{200, std::string(type_of(file.path)), std::string(file.content), {}};
    });
  }
  router.add("POST", "/api/lab", lab_api);
  router.add("GET", "/api/presets", presets_api);
  router.add("GET", "/api/random", random_api);
  router.add("GET", "/api/describe", describe_api);
  add_map_routes(router, captures);
  return router;
}

}  // namespace multihead::lab
