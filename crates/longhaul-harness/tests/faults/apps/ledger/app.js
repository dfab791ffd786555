const $ = (id) => document.getElementById(id);

$("rates").addEventListener("click", async () => {
  $("rates").disabled = true;
  $("rate").textContent = "asking …";
  const rates = await (await fetch("/rates")).json();
  const currency = document.querySelector("[name=currency]:checked").value;
  $("rate").textContent = `${currency} ${rates[currency]}`;
  $("rates").disabled = false;
});

if ($("problem").textContent) $("amount").focus();
